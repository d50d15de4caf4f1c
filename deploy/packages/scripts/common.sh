# The functions of all packages. tools/packages puts this file in front of each script.
say() { echo "gpuwhy: $*"; }
booted() { [ -d /run/systemd/system ]; }

# make_user makes the service's user, its group, and those that open GPUs' device nodes: what sysusers.d/gpuwhy.conf says.
make_user() {
  if command -v systemd-sysusers >/dev/null 2>&1; then
    systemd-sysusers "$1"
    return
  fi
  for group in gpuwhy video render; do
    getent group "$group" >/dev/null || groupadd --system "$group"
  done
  getent passwd gpuwhy >/dev/null || useradd --system --gid gpuwhy --no-create-home --home-dir /var/lib/gpuwhy \
    --shell /usr/sbin/nologin --comment "gpuwhy, why the GPU's fan runs" gpuwhy
  usermod --append --groups video,render gpuwhy
}

# make_state makes the state directory. A symbolic link is that of a unit with DynamicUser=: systemd moves that state here and
# gives it to the user, once the new unit starts.
make_state() {
  [ -e /var/lib/gpuwhy ] || [ -L /var/lib/gpuwhy ] || install -d -m 0700 -o gpuwhy -g gpuwhy /var/lib/gpuwhy
}

# handmade reports whether somebody installed the unit of $1 by hand, as $2 (a pattern) shows. It would stay in force before the
# package's, and start another program.
handmade() {
  [ ! -L "/etc/systemd/system/$1.service" ] && grep -qs "$2" "/etc/systemd/system/$1.service"
}

# accepts asks the new program whether it would start with the variables of a unit that was installed by hand.
accepts() {
  set --
  if [ -f /etc/default/gpuwhy ]; then
    while IFS= read -r line; do
      case $line in
      '#'* | ';'*) ;;
      *=*)
        value=${line#*=}
        case $value in
        '"'*'"' | "'"*"'") value=${value#?} && value=${value%?} ;;
        esac
        set -- "$@" "${line%%=*}=$value"
        ;;
      esac
    done </etc/default/gpuwhy
  fi
  env GPUWHY_STATE_DIR=/var/lib/gpuwhy "$@" "$program" check-config
}

# replace sets aside the unit of $1 that was installed by hand, in favor of the package's in folder $2. It stops that service if
# the new program accepts its settings, and otherwise leaves all as it is.
program=/usr/bin/gpuwhy
stopped=
replace() {
  handmade "$1" "${3:-^ExecStart=/usr/local/bin/gpuwhy }" || return 0
  old=/etc/systemd/system/$1.service
  if booted && systemctl --quiet is-active "$1.service"; then
    if [ "$1" = gpuwhy ] && ! accepts; then
      say "$old was installed by hand, and its gpuwhy still runs: this version does not accept its settings, as said above."
      say "change /etc/default/gpuwhy, and install this package again."
      return 0
    fi
    systemctl stop "$1.service"
    stopped="$stopped $1"
  fi
  mv "$old" "$old.before-package"
  for wanted in /etc/systemd/system/*.wants/"$1.service"; do
    [ ! -L "$wanted" ] || ln -sf "$2/$1.service" "$wanted"
  done
  say "$old was installed by hand. It is now $old.before-package, and $2/$1.service is in force."
  say "put your own lines into a drop-in (systemctl edit $1), then remove that file${4- and /usr/local/bin/gpuwhy}."
}

# start_stopped starts what replace has stopped. systemd moves the state of a dynamic user to the new user.
start_stopped() {
  for unit in $stopped; do
    systemctl start "$unit.service" || say "$unit did not start again: journalctl -u $unit says why"
  done
}

# restart gives a running service the new program, if the new program accepts its settings. $2 restarts it.
restart() {
  case " $stopped " in *" $1 "*) return 0 ;; esac # it runs the new program already
  if ! booted || handmade "$1" DynamicUser=yes || ! systemctl --quiet is-active "$1.service"; then
    return 0
  fi
  if systemctl reload "$1.service"; then
    ${2:-systemctl} restart "$1.service" || say "$1 did not start again: journalctl -u $1 says why"
    return 0
  fi
  say "$1 was NOT restarted: this version does not accept its settings, and the version before still runs."
  say "journalctl -u $1 says what to change. Then: systemctl restart $1"
}

where() {
  say "settings are in /etc/gpuwhy/gpuwhy.yaml. The page is on http://127.0.0.1:8003 unless they say otherwise."
  say "to let somebody acknowledge and silence alerts there: usermod -aG gpuwhy NAME"
}
