#!/bin/sh
# Make the certificates of a cluster in the folder ./certs: an authority of its own, and one certificate each for the NATS
# servers and for the game nodes. Run it once, somewhere safe; keep ca.key off the servers.
#   sh certificates.sh nats-1 nats-2 nats-3
set -eu
umask 077
[ $# -gt 0 ] || { echo "Name the NATS servers, as nodes will: sh certificates.sh nats-1 nats-2 nats-3" >&2; exit 2; }
mkdir -p certs
cd certs
[ ! -e ca.key ] || { echo "There is certs/ca.key already: remove certs to make all of them again." >&2; exit 1; }

names=""
for name in "$@" localhost; do names="$names,DNS:$name"; done

openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 3650 \
    -subj "/CN=holdfast cluster" -keyout ca.key -out ca.pem 2>/dev/null

issue() { # file, name, alternative names
    openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj "/CN=$2" \
        -keyout "$1.key" -out "$1.csr" 2>/dev/null
    # NATS servers are clients of each other: both uses.
    printf 'subjectAltName=%s\nextendedKeyUsage=serverAuth,clientAuth\n' "$3" > "$1.ext"
    openssl x509 -req -in "$1.csr" -CA ca.pem -CAkey ca.key -CAcreateserial -days 825 -extfile "$1.ext" \
        -out "$1.pem" 2>/dev/null
    rm "$1.csr" "$1.ext"
}

issue nats "nats" "${names#,}"
issue node "node" "DNS:node"
rm -f ca.srl
# The containers run as users of their own. For other users of this machine the folder stays closed.
chmod 644 nats.key node.key ./*.pem
chmod 755 .
echo "Made certs/: ca.pem, nats.pem, nats.key, node.pem, node.key, and ca.key to keep elsewhere."
