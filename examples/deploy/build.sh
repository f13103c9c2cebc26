# build.sh FOLDER: packs it, and says how the archive is called.
set -eu
mkdir -p "$DEPLOY_DIR/archives"
sum=$(cd "$1" && find . -type f | LC_ALL=C sort | while read -r f; do echo "$f"; cat "$f"; done | cksum | cut -d' ' -f1)
name=app-$sum.tar
tar -cf "$DEPLOY_DIR/archives/$name.part$$" -C "$1" .
mv "$DEPLOY_DIR/archives/$name.part$$" "$DEPLOY_DIR/archives/$name"
printf '{"name":"%s","checksum":%s}\n' "$name" "$sum"
