# A static binary in an otherwise empty image, run by nobody in particular.
#
#	docker build -t stoa --build-arg VERSION=$(git describe --tags --always) .
#	docker run -v stoa:/data stoa token create laptop      # an address that others reach needs a token
#	docker run -v stoa:/data -v ./config:/etc/stoa:ro -p 127.0.0.1:8080:8080 stoa
#
# There is nothing in it to run servers with: it is for servers with a url. For servers with a command, copy /stoa into
# an image that has what they need.
FROM golang:1.26 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG VERSION=
RUN CGO_ENABLED=0 go build -trimpath -buildvcs=false -ldflags "-s -w -X github.com/stoahub/stoa/internal/cli.release=${VERSION}" -o /out/stoa . \
	&& mkdir -p /out/data /out/etc/stoa && printf 'stoa: 1\n' > /out/etc/stoa/stoa.yaml

# An agent with a few commands to try the hub with: the service desk of compose.yaml.
FROM alpine:3 AS desk
COPY --from=build /out/stoa /usr/bin/stoa
COPY examples/agents/desk /desk
USER 65532:65532
ENTRYPOINT ["stoa", "agent", "/desk/agent.yaml", "--listen", "0.0.0.0:7000"]

FROM scratch
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=build /out/stoa /stoa
COPY --from=build --chown=65532:65532 --chmod=700 /out/data /data
COPY --from=build /out/etc/stoa /etc/stoa
USER 65532:65532
ENV STOA_DATA=/data MCP_JSON_PATH=/etc/stoa/stoa.yaml
VOLUME /data
EXPOSE 8080
ENTRYPOINT ["/stoa"]
CMD ["serve", "--listen", "0.0.0.0:8080"]
