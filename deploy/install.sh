#!/bin/sh
# Installs gpuwhy on Linux, or upgrades it, and says what it did:
#
#   curl -fsSL https://github.com/gpuwhy/gpuwhy/releases/latest/download/install.sh | sudo sh
#   curl -fsSL …/install.sh | sudo sh -s -- --uninstall    (--purge also removes the data)
#
# It takes the package for this system: deb, rpm, or an archive below /usr/local. It installs nothing unless the list of
# checksums has a good signature, and the package is in that list.
#
# Variables:
#   GPUWHY_FROM     where the files are (default: the latest release)
#   GPUWHY_PACKAGE  deb, rpm, tar or static, instead of what suits this system
#   GPUWHY_KEY      the public key of minisign that signed the list; a release's copy of this script has it
set -eu
key=${GPUWHY_KEY:-}
from=${GPUWHY_FROM:-https://github.com/gpuwhy/gpuwhy/releases/latest/download}
list=SHA256SUMS

say() { echo "gpuwhy: $*"; }
fail() {
  say "$*" >&2
  exit 1
}
have() { command -v "$1" >/dev/null 2>&1; }

# fetch downloads one file of the release.
fetch() {
  if have curl; then
    curl -fsSL --retry 3 --connect-timeout 20 -o "$2" "$from/$1" || fail "$from/$1 can't be downloaded: check the address and this machine's proxy (HTTPS_PROXY)"
  elif have wget; then
    wget -q -O "$2" "$from/$1" || fail "$from/$1 can't be downloaded: check the address and this machine's proxy (HTTPS_PROXY)"
  else
    fail "install curl or wget first"
  fi
}

# signed checks the signature of the list in the current folder. A signature of minisign is made with Ed25519 over the list's
# BLAKE2b hash, which OpenSSL 3 checks as well.
signed() {
  if have minisign; then
    minisign -Vqm $list -P "$key" >/dev/null 2>&1
    return
  fi
  have openssl || fail "install minisign or openssl, to check the signature"
  case $(openssl version) in
  'OpenSSL '[3-9].*) ;;
  *) fail "install minisign, or OpenSSL 3 or newer, to check the signature: $(openssl version) can't" ;;
  esac
  sed -n 2p $list.minisig | base64 -d >signature
  echo "$key" | base64 -d >key || return 1
  # Of both: what kind it is, and which key it belongs to.
  [ "$(head -c 2 signature)" = ED ] && [ "$(head -c 2 key)" = Ed ] &&
    [ "$(wc -c <signature)" = 74 ] && [ "$(wc -c <key)" = 42 ] || return 1
  tail -c +11 signature >signature.raw
  {
    printf '\060\052\060\005\006\003\053\145\160\003\041\000' # a key of Ed25519 follows (RFC 8410)
    tail -c +11 key
  } >key.der
  openssl dgst -blake2b512 -binary $list >hash &&
    openssl pkeyutl -verify -pubin -keyform DER -inkey key.der -rawin -in hash -sigfile signature.raw >/dev/null 2>&1
}

# suits says which package suits this system.
suits() {
  glibc=$(getconf GNU_LIBC_VERSION 2>/dev/null | sed -n 's/^glibc 2\.//p')
  if [ "${glibc:-0}" -lt 34 ]; then
    echo static
  elif have dpkg && have apt-get; then
    echo deb
  elif have rpm && [ -d /etc/yum.repos.d ] || have zypper; then
    echo rpm
  else
    echo tar
  fi
}

install_package() {
  case $(uname -s) in Linux) ;; *) fail "this script is for Linux; docs/install.md says what runs on $(uname -s)" ;; esac
  case $(uname -m) in
  x86_64) arch=amd64 rpm_arch=x86_64 ;;
  aarch64) arch=arm64 rpm_arch=aarch64 ;;
  *) fail "there is no package for $(uname -m): build gpuwhy from source" ;;
  esac
  kind=${GPUWHY_PACKAGE:-$(suits)}
  case $kind in
  deb) pattern="gpuwhy_[^ ]*_$arch\\.deb" ;;
  rpm) pattern="gpuwhy-[^ ]*\\.$rpm_arch\\.rpm" ;;
  tar) pattern="gpuwhy_[^ ]*_linux_$arch\\.tar\\.gz" ;;
  static) pattern="gpuwhy_[^ ]*_linux_${arch}_static\\.tar\\.gz" ;;
  *) fail "GPUWHY_PACKAGE is deb, rpm, tar or static, not $kind" ;;
  esac
  [ -n "$key" ] || fail "this copy of install.sh has no key to check signatures with: take the copy of a release, or name the release's key in GPUWHY_KEY"

  fetch $list $list
  fetch $list.minisig $list.minisig
  signed || fail "the signature of $from/$list is wrong. Nothing was installed: somebody may have changed the files."
  file=$(sed -n "s/^[0-9a-f]\\{64\\}  \\($pattern\\)\$/\\1/p" $list)
  [ "$(echo "$file" | wc -w)" = 1 ] || fail "$from has no package $kind for $arch"
  say "downloading $file"
  fetch "$file" "$file"
  grep "  $file\$" $list | sha256sum -c - >/dev/null 2>&1 || fail "the checksum of $file is wrong. Nothing was installed: somebody may have changed the file."
  say "the signature and the checksum of $file are good"

  case $kind in
  deb) DEBIAN_FRONTEND=noninteractive apt-get install -y -q --allow-downgrades -o Dpkg::Options::=--force-confold "./$file" ;;
  rpm)
    rpm -U --oldpackage --replacepkgs "$file"
    if [ -d /run/systemd/system ]; then
      systemctl enable --now gpuwhy.service
    fi
    ;;
  *)
    mkdir unpacked
    tar -xzf "$file" -C unpacked
    sh unpacked/*/setup install # /tmp may be mounted without the right to run programs
    ;;
  esac
  say "installed $file"
  if [ ! -d /run/systemd/system ]; then
    say "systemd doesn't run here. To start gpuwhy by hand: gpuwhy serve --config /etc/gpuwhy/gpuwhy.yaml"
  fi
}

# uninstall removes what is below /usr/local, and the package: there are both if a package was installed over an archive. The
# package goes first, since it stops its service.
uninstall() {
  if have dpkg && dpkg -s gpuwhy >/dev/null 2>&1; then
    DEBIAN_FRONTEND=noninteractive apt-get "$1" -y -q gpuwhy
  elif have rpm && rpm -q gpuwhy >/dev/null 2>&1; then
    rpm -e gpuwhy
    [ "$1" = remove ] || rm -rf /var/lib/gpuwhy /var/lib/gpuwhy-agent /etc/gpuwhy
  elif [ ! -x /usr/local/lib/gpuwhy/setup ]; then
    fail "gpuwhy isn't installed, neither as a package nor below /usr/local"
  fi
  if [ -x /usr/local/lib/gpuwhy/setup ]; then
    /usr/local/lib/gpuwhy/setup "$1"
  fi
  say "removed"
}

# All of it is read before any of it runs: a download that breaks off does nothing.
main() {
  case ${1:-} in
  --help | -h)
    echo "install.sh [--uninstall | --purge]: installs or upgrades gpuwhy, removes it, or removes it with its data"
    exit
    ;;
  esac
  [ "$(id -u)" = 0 ] || fail "run this as root: pipe it to 'sudo sh'"
  case ${1:-} in
  '')
    dir=$(mktemp -d)
    trap 'rm -rf "$dir"' EXIT
    chmod 0755 "$dir" # apt's own user reads the package there
    cd "$dir"
    install_package
    ;;
  --uninstall) uninstall remove ;;
  --purge) uninstall purge ;;
  *) fail "it takes --uninstall or --purge, not $1" ;;
  esac
}
main "$@"
