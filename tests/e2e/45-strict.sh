#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
# timeout: 500
# Level strict as its users meet it: ordinary threads and spawns are no refusal in the timeline, and a hostile home
# gains nothing from the host's own ways in (SEC-07, SEC-09, SUP-03, SUP-07, UN-39, UN-41).
set -u
cd "$(dirname "$0")/../.."
. tests/home.sh
. tests/tap.sh
home_test "$@"

cat >"$dir/policy.yaml" <<'YAML'
version: 1
filesystem_policy:
  include_workdir: true
  read_only: [/usr, /bin, /sbin, /lib, /lib64, /etc, /proc, /sys, /var, /opt, /run]
  read_write: [/home/agent, /tmp, /dev]
landlock:
  compatibility: best_effort
process:
  run_as_user: sandbox
  run_as_group: sandbox
YAML
rows() { holdfast timeline strict --json --all "$@"; }
# The supervisor's own probe, which asks for a refusal before the first session, is one too, outside the sandbox.
session_refusals() { rows --kind seccomp_denied | grep '"sandbox":true'; }
guest() { holdfast exec strict -- "$@"; }

holdfast ws create strict --accel "$(home_accel)" --sentry required --policy "$dir/policy.yaml" >"$dir/out" 2>&1 &&
	holdfast ws start strict >>"$dir/out" 2>&1 || sed 's/^/# /' "$dir/out"
is "the VM starts at strict" "$(holdfast ws show strict --json | grep -o '"level":"[a-z]*"')" '"level":"strict"'
if [ $tap_failed = 1 ]; then tap_end; exit 1; fi

# --- what a required Sentry closes behind it
is "TAM-01 TAM-03 TAM-05 no module and no other kernel" "$(guest cat /proc/sys/kernel/modules_disabled /proc/sys/kernel/kexec_load_disabled)" $'1\n1'
is "TAM-02 lockdown is at confidentiality" "$(guest cat /sys/kernel/security/lockdown)" "none integrity [confidentiality]"

# --- 1 000 threads and 1 000 spawns, then one call that is refused
holdfast cp build/probe/threads strict:/tmp/threads
is "SEC-07 1 000 pthread_create and 1 000 posix_spawn work" "$(guest /tmp/threads 1000)" "1000 threads, 1000 spawns"
is "SEC-07 and none of them is a refusal in the timeline" "$(session_refusals)" ""
guest python3 -c 'import os; os.memfd_create("x")' >/dev/null 2>&1
refused_call() { session_refusals | grep -q memfd_create; }
ok "SEC-09 baseline: a refused call is one" within 20 refused_call

# --- a hostile home, and every way by which the host runs something in it
cat >"$dir/payload" <<'SH'
#!/bin/sh
# who ran it, where, and under what
{ echo "$(basename "$0") $(tail -n 1 /proc/self/cgroup) seccomp=$(sed -n 's/^Seccomp:\t//p' /proc/self/status)"; } >>/home/agent/evidence
exit 0
SH
cat >"$dir/plant" <<'SH'
set -eu
cd /home/agent
chmod 0755 payload
for name in .bashrc .profile .bash_profile .bash_login .bash_logout .zshenv .inputrc; do cp payload "$name"; done
sed -i 's/^exit 0$//; s/\$(basename "\$0")/rc-file/' .bashrc .profile .bash_profile .bash_login .bash_logout
mkdir -p bin .local/bin .config/git
for name in tar sh cat git ls env id node; do cp payload "bin/$name"; cp payload ".local/bin/$name"; done
printf '[core]\n\tpager = /home/agent/pager\n\tfsmonitor = /home/agent/fsmonitor\n\thooksPath = /home/agent/hooks\n' >.gitconfig
mkdir -p hooks && cp payload fsmonitor && cp payload pager
for name in post-checkout pre-commit post-commit post-index-change; do cp payload "hooks/$name"; done
git -c core.fsmonitor=false -c core.hooksPath=/dev/null init -q repo
mkdir -p app && cp payload app/postinstall && rm -f evidence
echo '{"name":"app","version":"1.0.0","private":true,"scripts":{"preinstall":"./postinstall","test":"./postinstall"}}' >app/package.json
SH
holdfast cp "$dir/payload" strict:/home/agent/payload
holdfast cp "$dir/plant" strict:/tmp/plant
ok "the home is planted" guest /bin/sh /tmp/plant
evidence() { guest /bin/cat /home/agent/evidence 2>/dev/null; }
forget() { guest /bin/rm -f /home/agent/evidence; }
confined() { # every line says: in the sandbox, filtered
	local all
	all=$(evidence)
	[ -n "$all" ] && ! printf '%s\n' "$all" | grep -vE '^[a-z0-9-]+ 0::/holdfast/sandbox/s[0-9]+ seccomp=2$'
}

guest bash -ic true >/dev/null 2>&1
ok "SUP-07 baseline: the payload runs where a shell reads it" confined
forget
guest true
guest env BASH_VERSION=1 sh -c 'cat /dev/null; ls / >/dev/null; id >/dev/null' >/dev/null 2>&1
holdfast exec --env BASH_ENV=/home/agent/payload --env LD_PRELOAD=/home/agent/x.so strict -- bash -c true
is "SUP-07 exec: nothing of the home runs" "$(evidence)" ""
mkdir -p "$dir/tree/sub" && echo hello >"$dir/tree/sub/file"
holdfast cp "$dir/tree" strict:/home/agent/tree
holdfast cp strict:/home/agent/tree "$dir/back"
is "SUP-07 cp both ways: the bytes are right" "$(cat "$dir/back/sub/file")" hello
is "SUP-07 cp both ways: nothing of the home runs" "$(evidence)" ""
printf 'exit\n' | script -qec "holdfast shell strict" /dev/null >/dev/null 2>&1
ok "SUP-03 shell: its rc files run inside the sandbox" confined
forget
holdfast exec --tty strict -- bash -l -c true >/dev/null 2>&1
ok "SUP-03 a login shell by exec: inside the sandbox" confined
forget
guest git -C /home/agent/repo status >/dev/null 2>&1
guest sh -c 'cd /home/agent/repo && echo x >f && git add f && git -c user.name=n -c user.email=n@example.org commit -qm x' >/dev/null 2>&1
ok "SUP-03 git status and commit: fsmonitor and hooks run inside the sandbox" confined
ok "SUP-03 and they did run" bash -c 'holdfast exec strict -- /bin/cat /home/agent/evidence | grep -q fsmonitor && holdfast exec strict -- /bin/cat /home/agent/evidence | grep -q pre-commit'
forget
holdfast exec --cwd /home/agent/app strict -- /usr/bin/npm install --no-audit --no-fund --offline --loglevel=error >/dev/null 2>&1
ok "SUP-03 npm scripts run inside the sandbox" confined
is "SUP-03 no process of the user is outside the sandbox" "$(guest sh -c 'for p in /proc/[0-9]*; do
	[ "$(stat -c %U $p 2>/dev/null)" = sandbox ] && grep -v ^0::/holdfast/sandbox/ $p/cgroup; done')" ""

# --- a clipboard query, from a program that asked for no terminal, towards a host that has one
query='printf "\\033]52;c;?\\007clip"'
ok "baseline: into a pipe every byte arrives" bash -c "holdfast exec strict -- sh -c '$query' | grep -qF ']52;c;?'"
script -qec "holdfast exec strict -- sh -c '$query'" /dev/null >"$dir/query" 2>&1
ok "a clipboard query does not reach the host's terminal" bash -c 'grep -q clip "$0" && ! grep -qF "52;c;?" "$0"' "$dir/query"

# --- git as developers use it
cat >"$dir/git.sh" <<'SH'
set -e
export GIT_CONFIG_GLOBAL=/dev/null
rm -rf /tmp/g && mkdir /tmp/g && cd /tmp/g
git init -q main && cd main
git config user.name n && git config user.email n@example.org
echo 1 >f && git add f && git commit -qm one
git worktree add -q ../linked -b side
cd ../linked && echo 2 >g && git add g && git commit -qm two
git -C ../main log --oneline side | wc -l
ssh-keygen -q -t ed25519 -N '' -f /tmp/g/key
git config gpg.format ssh && git config user.signingkey /tmp/g/key.pub
echo 3 >h && git add h && git commit -q -S -m three
echo "n@example.org $(cat /tmp/g/key.pub)" >/tmp/g/signers
git config gpg.ssh.allowedSignersFile /tmp/g/signers
git verify-commit HEAD 2>&1 | grep -o '^Good "git" signature'
SH
holdfast cp "$dir/git.sh" strict:/tmp/git.sh
is "UN-39, UN-41 a commit in a linked worktree, and one signed with a key of the workspace" "$(guest sh /tmp/git.sh)" '2
Good "git" signature'

# --- LL-06: what takes effect now and what at the next start
{
	cat "$dir/policy.yaml"
	printf 'network_policies:\n  files:\n    name: files\n    endpoints:\n      - { host: files.example.org, port: 80 }\n    binaries:\n      - { path: /usr/bin/curl }\n'
} >"$dir/network.yaml"
sed 's#, /opt, /run\]#, /run]#' "$dir/network.yaml" >"$dir/files.yaml"
is "LL-06 a network rule is in force at once" "$(holdfast policy apply strict "$dir/network.yaml" | tail -n 1)" "the network part is in force now"
is "LL-06 by a connection" "$(guest curl -fsS -m 20 -o /dev/null -w '%{http_code}' http://files.example.org/hello-1.0.tar.gz)" 200
is "LL-06 a change of paths waits, and says so" "$(holdfast policy apply strict "$dir/files.yaml" | tail -n 1)" "at the next start: filesystem_policy"
ok "LL-06 until then the old paths hold" guest ls /opt

ok "the timeline verifies" holdfast timeline verify
tap_end
