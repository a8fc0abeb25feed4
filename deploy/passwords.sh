#!/bin/sh
# Writes the passwords that docker-compose.yml asks for into .env beside it, for you alone to read. Those that are there stay.
set -eu
umask 077
cd "$(dirname "$0")/.."
touch .env
chmod 600 .env
for name in $(sed -n 's/.*{ environment: \([A-Z_]*\) }.*/\1/p' docker-compose.yml | sort -u); do
    # Hex, so that no URL, shell or YAML has to escape anything.
    grep -q "^$name=" .env || echo "$name=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')" >> .env
done
echo "the passwords are in $PWD/.env"
