# greet.sh NAME
echo "hello ${1:-you}"
