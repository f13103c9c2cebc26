# Each line is a test.
test "$(sh greet.sh world)" = "hello world"
test "$(sh greet.sh)" = "hello you"
