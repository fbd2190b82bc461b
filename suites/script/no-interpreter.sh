touch "$1"
