#!/bin/sh
# Godot 4 from Debian's packages, without installing it: downloads 180 MB once, unpacks 530 MB into the folder named, and
# writes a program there that runs it. Debian's stable releases have Godot 3 only, hence sid.
set -eu
folder=$(mkdir -p "$1" && cd "$1" && pwd)
program=$folder/godot
[ -x "$program" ] && exit 0
mkdir -p "$folder/apt/lists/partial" "$folder/apt/archives/partial" "$folder/apt/sources" "$folder/root"
: >"$folder/apt/status"
cat >"$folder/apt/sources/sid.sources" <<'SOURCES'
Types: deb
URIs: http://deb.debian.org/debian
Suites: sid
Components: main
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg
SOURCES
apt() {
	apt-get -q -o Dir::State::lists="$folder/apt/lists" -o Dir::State::status="$folder/apt/status" \
		-o Dir::Cache="$folder/apt" -o Dir::Cache::archives="$folder/apt/archives" -o Dir::Etc::sourcelist=/dev/null \
		-o Dir::Etc::sourceparts="$folder/apt/sources" -o APT::Install-Recommends=0 -o Debug::NoLocking=1 "$@"
}
apt update
apt install --yes --download-only godot
for package in "$folder"/apt/archives/*.deb; do
	dpkg -x "$package" "$folder/root"
done
rm -r "$folder/apt"
libraries=$folder/root/usr/lib/x86_64-linux-gnu
paths=$(find "$libraries" -name '*.so*' -printf '%h\n' | sort -u | tr '\n' ':')
cat >"$program" <<PROGRAM
#!/bin/sh
exec "$libraries/ld-linux-x86-64.so.2" --library-path "$paths" "$folder/root/usr/bin/godot" "\$@"
PROGRAM
chmod +x "$program"
