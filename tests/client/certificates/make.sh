#!/bin/sh
# Make the certificates that the tests use, anew: two private authorities, servers under each, a client with its key in the
# clear and encrypted. The authorities' own keys are not kept. They are shipped, so that no test needs openssl or a package.
set -eu
cd "$(dirname "$0")"
keys=$(mktemp -d)
trap 'rm -r "$keys"' EXIT

key() { openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out "$1" 2>/dev/null; }

authority() { # name
    key "$keys/$1.key"
    openssl req -x509 -new -key "$keys/$1.key" -subj "/CN=comity tests: $1" -days 36500 -out "$1.pem" \
        -addext "basicConstraints=critical,CA:TRUE" -addext "keyUsage=critical,keyCertSign,cRLSign"
}

leaf() { # authority, name, subject alternative names, extended key usage
    key "$2.key"
    openssl req -new -key "$2.key" -subj "/CN=$2" -out "$keys/$2.csr"
    printf '%s\n' "subjectAltName=$3" "extendedKeyUsage=$4" "basicConstraints=critical,CA:FALSE" \
        "keyUsage=critical,digitalSignature" "authorityKeyIdentifier=keyid" "subjectKeyIdentifier=hash" > "$keys/ext"
    openssl x509 -req -in "$keys/$2.csr" -CA "$1.pem" -CAkey "$keys/$1.key" -CAcreateserial -days 36500 \
        -extfile "$keys/ext" -out "$2.crt" 2>/dev/null
    rm -f "$1.srl"
}

authority ca
authority other-ca
leaf ca target "DNS:target.test,DNS:localhost,IP:127.0.0.1" serverAuth
leaf other-ca proxy "DNS:proxy.test,DNS:localhost,IP:127.0.0.1" serverAuth
for name in target proxy; do
    cat "$name.crt" "$name.key" > "$name.pem"
    rm "$name.crt" "$name.key"
done
leaf ca client "DNS:client.test" clientAuth
openssl pkcs8 -topk8 -v2 aes-256-cbc -in client.key -passout "pass:correct horse" -out client-encrypted.key
