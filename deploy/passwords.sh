#!/bin/sh
# Write missing passwords of docker-compose.yml into .env beside it, readable only by its owner.
set -eu
umask 077
cd "$(dirname "$0")/.."
touch .env
chmod 600 .env
for name in $(sed -n 's/.*{ environment: \([A-Z_]*\) }.*/\1/p' docker-compose.yml | sort -u); do
    # Hex, which needs no escapes in URLs, shells and YAML.
    grep -q "^$name=" .env || echo "$name=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')" >> .env
done
echo "the passwords are in $PWD/.env"
