# SPDX-License-Identifier: GPL-2.0-or-later
"""Bridges and the proxy's environment (UN-01, 02, 14, 41, 55, DRP-05; spec of sandboxd, section 8)."""
import hashlib
import os
import re
import shutil
import socket
import ssl
import subprocess
import tempfile
import threading

from guestvm import CACHE, Guest, Tap, json, spec

tap = Tap()
seen = []


def request_of(sock, rest=b""):
    """Reads until a request's end; b"" from a client that leaves."""
    while b"END" not in rest[-8:] and b"\r\n\r\n" not in rest[-4:]:
        more = sock.recv(65536)
        if not more:
            break
        rest += more
    return rest


def intercepted(sock, leaf):
    """The other side of a CONNECT: a server with a certificate of the fixture's CA. What was asked of it."""
    sock.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(leaf)
    try:
        with context.wrap_socket(sock, server_side=True) as inner:
            asked = request_of(inner)
            inner.sendall(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 3\r\n\r\nhi\n")
            return asked
    except OSError as e:
        return repr(e).encode()


def fixture_proxy(leaf):
    """Keeps the preamble, answers like a web server, and echoes what came; a CONNECT it answers with TLS of its own."""
    def handler(sock):
        data = b""
        while b"\n" not in data:
            more = sock.recv(65536)
            if not more:
                break
            data += more
        line, _, rest = data.partition(b"\n")
        rest = request_of(sock, rest)
        if rest.startswith(b"CONNECT "):
            rest += b"TLS: " + intercepted(sock, leaf)
            seen.append((line, rest))
        else:
            seen.append((line, rest))
            sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(rest) + rest)
        sock.close()
    return handler


def echo(tag):
    def handler(sock):
        data = sock.recv(4096)
        sock.sendall(tag + data)
        sock.close()
    return handler


def certificates(leaf):
    """The fixture's CA, and in the file `leaf` a key and certificate of client.example by it. Returns the CA's."""
    key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"]
    with tempfile.TemporaryDirectory() as d:
        subprocess.run(["openssl", "req", "-x509", *key, "-subj", "/CN=Holdfast fixture CA", "-keyout", d + "/k", "-out", d + "/c"],
                       check=True, capture_output=True)
        subprocess.run(["openssl", "req", "-x509", *key, "-subj", "/CN=client.example", "-addext", "subjectAltName=DNS:client.example",
                        "-addext", "basicConstraints=critical,CA:FALSE", "-CA", d + "/c", "-CAkey", d + "/k", "-keyout", d + "/lk", "-out", d + "/lc"],
                       check=True, capture_output=True)
        with open(leaf, "wb") as out:
            for name in ("/lk", "/lc"):
                with open(d + name, "rb") as f:
                    out.write(f.read())
        with open(d + "/c", "rb") as f:
            return f.read()


def proxy_stream(vm):
    script = ("import socket\ns=socket.create_connection(('127.0.0.1',8080))\n"
              "print(s.getsockname()[1],flush=True)\ns.sendall(b'HOLDFAST-CLIENT 1 sport=1 peer=9.9.9.9\\nGET / END')\n"
              "d=b''\nwhile True:\n x=s.recv(65536)\n if not x: break\n d+=x\nprint(d.decode())\n")
    r = vm.run(["python3", "-c", script])
    port = r.text.split("\n")[0]
    tap.ok(seen and seen[-1][0] == b"HOLDFAST-CLIENT 1 sport=%s peer=127.0.0.1" % port.encode(), "the preamble names the client's real port", (seen, r))
    tap.ok(seen and seen[-1][1].startswith(b"HOLDFAST-CLIENT 1 sport=1 peer=9.9.9.9\n"), "a client's own preamble comes after it, as data", seen)
    r = vm.run(["curl", "-sS", "--max-time", "20", "http://service.example/path"])
    tap.ok(r.code == 0 and b"GET http://service.example/path HTTP/1.1" in r.out, "curl goes through the proxy by the environment alone", r)
    r = vm.run(["python3", "-c", "import urllib.request; print(urllib.request.urlopen('http://service.example/py').read().decode())"])
    tap.ok("GET http://service.example/py" in r.text, "python too", r)
    results = []
    threads = [threading.Thread(target=lambda i=i: results.append(vm.run(["curl", "-sS", "--max-time", "60", "http://x.example/%d" % i], timeout=120).code))
               for i in range(20)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    tap.equal(results, [0] * 20, "20 clients at once")
    r = vm.run(["python3", "-c", "import socket\ns=socket.create_connection(('127.0.0.1',8080))\ns.sendall(b'x'*3000000+b'END')\n"
                "n=0\nwhile True:\n d=s.recv(65536)\n if not d: break\n n+=len(d)\nprint(n)"], timeout=120)
    tap.ok(r.code == 0 and int(r.text) > 3000003, "3 MB up and down, then an end of file", r)


def sockets(vm):
    for name in ("ssh-agent", "aws", "token", "token2"):
        r = vm.run(["python3", "-c", "import socket\ns=socket.socket(socket.AF_UNIX)\ns.connect('/run/holdfast/%s.sock')\n"
                    "s.sendall(b'hi')\nprint(s.recv(100).decode())" % name])
        tap.equal(r.text, "%s:hi\n" % name, "the socket of %s reaches its port of the host" % name)
    r = vm.run(["stat", "-c", "%U %a", "/run/holdfast/ssh-agent.sock"])
    tap.equal(r.text, "agent 600\n", "and belongs to the session's user")


def relay(vm):
    c = vm.conn()
    c.request({"op": "exec", "argv": ["python3", "-c", "import socket\na=socket.socket(); a.bind(('127.0.0.1',7777)); a.listen(); print('up',flush=True)\n"
                                      "c,_=a.accept(); print(c.recv(100).decode(),flush=True); c.sendall(b'done'); c.close()"]})
    c.frame()
    c.frame()
    s = vm.connect(5010)
    s.settimeout(20)
    s.sendall(b"HOLDFAST-RELAY 1 port=7777\ncode=abc")
    tap.equal(s.recv(100), b"done", "OAuth: the host's callback reaches the guest's loopback")
    c.close()
    for line in (b"HOLDFAST-RELAY 1 port=22\n", b"HOLDFAST-RELAY 1 port=7777 x\n", b"GET / HTTP/1.1\r\n" * 20):
        s = vm.connect(5010)
        s.settimeout(20)
        try:
            s.sendall(line)
            got = s.recv(10)
        except OSError:
            got = b""
        tap.equal(got, b"", "OAuth: refused: %r" % line[:32])


WANTED = {"HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY", "https_proxy", "http_proxy", "all_proxy", "NO_PROXY", "no_proxy", "NODE_USE_ENV_PROXY",
          "NODE_EXTRA_CA_CERTS", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "GIT_SSL_CAINFO", "PIP_CERT", "CARGO_HTTP_CAINFO",
          "AWS_CA_BUNDLE", "DENO_CERT", "JAVA_TOOL_OPTIONS"}


def environment(vm):
    ways = {
        "exec": "env",
        "a login shell": "bash -lc env",
        "a child of a child": "python3 -c 'import subprocess; subprocess.run([\"sh\", \"-c\", \"env\"])'",
        "su, by the PAM module that cron uses too": "sudo -n su agent -c env",
        "a service": "sudo -n systemd-run -q --pipe --wait env",
        "sudo": "sudo -n env",
    }
    for name, command in ways.items():
        r = vm.run(command, timeout=60)
        have = {line.split("=")[0] for line in r.text.splitlines()}
        tap.ok(WANTED <= have, "UN-02, UN-55 the variables are there in: " + name, sorted(WANTED - have))
    for line in vm.run("env").text.splitlines():
        key, _, value = line.partition("=")
        if key in WANTED and value.startswith("/"):
            tap.ok(vm.run(["test", "-s", value]).code == 0, "DRP-05 the file of %s exists" % key)
    r = vm.run("grep -c BEGIN /run/holdfast/ca-bundle.crt; openssl crl2pkcs7 -nocrl -certfile /etc/ssl/certs/ca-certificates.crt 2>/dev/null "
               "| openssl pkcs7 -print_certs -noout 2>/dev/null | grep -c 'subject=.*Holdfast fixture CA'")
    tap.ok(int(r.text.split()[0]) > 50 and r.text.split()[1:] == ["1"], "UN-01 the system's own bundle holds the CA", r)
    tap.ok(vm.run("umount /etc/ssl/certs/ca-certificates.crt && grep -c 'BEGIN' /etc/ssl/certs/ca-certificates.crt", user="root").code == 0,
           "and nothing was written to the disk for it")


# A Node that knows no NODE_USE_ENV_PROXY: it goes to the proxy by its own hands, and trusts by NODE_EXTRA_CA_CERTS.
NODE = b"""const http = require('http'), https = require('https');
const proxy = new URL(process.env.HTTPS_PROXY), url = new URL(process.argv[2]);
const ask = http.request({ host: proxy.hostname, port: proxy.port, method: 'CONNECT', path: url.hostname + ':443' });
ask.on('connect', (answer, socket) => {
	https.get({ host: url.hostname, path: url.pathname, socket, agent: false }, r => r.resume()).on('error', e => { console.error(e.code); process.exit(1); });
});
ask.end();
"""


# What a client of each kind does with the variables alone. "plain": it asks the proxy for a whole URL. "TLS": it
# believes the server behind a CONNECT, whose certificate only the fixture's CA vouches for.
CLIENTS = {
    "curl": "curl -sS --max-time 30 http://client.example/CLIENT",
    "git": "git ls-remote http://client.example/CLIENT",
    "python urllib": "python3 -c 'import urllib.request as u; u.urlopen(\"http://client.example/CLIENT\", timeout=30).read()'",
    "curl, TLS": "curl -sS --max-time 30 https://client.example/CLIENT",
    "git, TLS": "git ls-remote https://client.example/CLIENT",
    "node, TLS": "node /tmp/client.js https://client.example/CLIENT",
    "python urllib, TLS": "python3 -c 'import urllib.request as u; u.urlopen(\"https://client.example/CLIENT\", timeout=30).read()'",
}
KINDS = {
    "exec": "{}",
    "a login shell": "bash -lc '. /tmp/client'",
    "a child of python": "python3 -c 'import subprocess as s; s.run([\"sh\", \"/tmp/client\"])'",
    "sudo": "sudo -n sh /tmp/client",
    "a systemd unit": "sudo -n systemd-run -q --pipe --wait sh /tmp/client",
    "su": "sudo -n su agent -c 'sh /tmp/client'",
}


GO = b"""package main
import ("io"; "net/http"; "os")
func main() {
	r, err := http.Get(os.Args[1])
	if err != nil { println(err.Error()); os.Exit(1) }
	io.Copy(os.Stdout, r.Body)
}
"""


def go_client(vm):
    """A Go program made on this machine; False where there is no Go."""
    go = shutil.which("go") or ("/usr/local/go/bin/go" if os.path.exists("/usr/local/go/bin/go") else None)
    if not go:
        tap.skip("DRP-05 a Go client", "no Go on this machine to make one")
        return False
    made = os.path.join(CACHE, "goclient", hashlib.sha256(GO).hexdigest()[:32])
    if not os.path.exists(made):    # the first time it compiles Go's own library as well
        os.makedirs(os.path.dirname(made), exist_ok=True)
        with tempfile.TemporaryDirectory() as d:
            with open(d + "/client.go", "wb") as f:
                f.write(GO)
            subprocess.run([go, "build", "-ldflags=-s -w", "-o", made + ".new", d + "/client.go"], check=True, capture_output=True, cwd=d,
                           env=dict(os.environ, CGO_ENABLED="0", GO111MODULE="off", GOTOOLCHAIN="local", HOME=d, GOCACHE=d + "/cache"))
        os.rename(made + ".new", made)
    with open(made, "rb") as f:
        vm.put("/tmp/goclient", f.read())
    return True


def matrix(vm):
    """Client x kind of exec: each reaches the proxy by the environment that it finds."""
    clients = dict(CLIENTS)
    vm.put("/tmp/client.js", NODE, mode=0o644)
    if go_client(vm):
        clients["Go"] = "/tmp/goclient http://client.example/CLIENT"
        clients["Go, TLS"] = "/tmp/goclient https://client.example/CLIENT"
    for client, command in clients.items():
        for kind, way in KINDS.items():
            tag = "%s-%s" % (client.replace(" ", "").replace(",", ""), kind.replace(" ", ""))
            vm.put("/tmp/client", command.replace("CLIENT", tag).encode() + b"\n", mode=0o644)
            before = len(seen)
            vm.run("sh /tmp/client" if way == "{}" else way, timeout=90)
            asked = [s[1] for s in seen[before:]]
            if "TLS" in client:
                good = any(a.startswith(b"CONNECT client.example:443 ") and b"TLS: GET /" + tag.encode() in a for a in asked)
            else:
                good = any(a.startswith(b"GET http://client.example/" + tag.encode()) for a in asked)
            tap.ok(good, "DRP-05 %s by %s %s" % (client, kind, "believes the proxy" if "TLS" in client else "goes through the proxy"), asked)


def java_store(vm):
    """UN-01 for Java, by Java's own tool: the store holds the CA and the system's roots, and the option names it."""
    r = vm.run("echo \"$JAVA_TOOL_OPTIONS\"; cat /run/holdfast/cacerts.jks")
    options, _, store = r.out.partition(b"\n")
    tap.ok(b"-Djavax.net.ssl.trustStore=/run/holdfast/cacerts.jks" in options and b"-Dhttps.proxyPort=8080" in options,
           "UN-01 Java is told of the store and the proxy", options)
    keytool = shutil.which("keytool")
    if not keytool:
        tap.skip("UN-01 keytool reads the store", "no keytool on this machine")
        return
    with tempfile.TemporaryDirectory() as d:
        with open(d + "/store", "wb") as f:
            f.write(store)
        with open(d + "/ca", "wb") as f:
            f.write(vm.ca)
        listed = subprocess.run([keytool, "-list", "-keystore", d + "/store", "-storepass", "changeit"], capture_output=True, text=True, check=False)
        out = subprocess.run(["openssl", "x509", "-in", d + "/ca", "-noout", "-fingerprint", "-sha256"], capture_output=True, text=True, check=True)
    tap.ok(listed.returncode == 0 and listed.stdout.count("trustedCertEntry") > 50 and out.stdout.strip().split("=")[1] in listed.stdout,
           "UN-01 keytool reads the store: the system's roots and the CA are in it", listed.stdout[:300] + listed.stderr[:300])


def containers(vm):
    """UN-46: something like a container, behind the bridge that dockerd would make."""
    tap.ok(vm.run("! ss -ltn | grep -q 172.17.0.1:8080").code == 0, "no container bridge, no listener on it")
    r = vm.run("ip link add docker0 type bridge && ip address add 172.17.0.1/16 dev docker0 && ip link set docker0 up && "
               "ip netns add c && ip link add v0 type veth peer name v1 netns c && ip link set v0 master docker0 up && "
               "ip -n c address add 172.17.0.2/16 dev v1 && ip -n c link set v1 up && ip -n c link set lo up", user="root")
    tap.ok(r.code == 0, "a network namespace behind docker0", r)
    vm.run("for i in $(seq 20); do ss -ltn | grep -q 172.17.0.1:8080 && break; sleep 0.5; done")
    r = vm.run("ip netns exec c curl -sS --max-time 20 -x http://172.17.0.1:8080 http://container.example/x", user="root", timeout=60)
    tap.ok(r.code == 0 and seen and seen[-1][0].endswith(b" peer=172.17.0.2") and seen[-1][1].startswith(b"GET http://container.example/x"),
           "its stream reaches the proxy, and the preamble names the container's address", (r, seen[-1:]))
    r = vm.run("ip netns add n && ip link add w0 type veth peer name w1 netns n && ip address add 10.9.9.1/24 dev w0 && ip link set w0 up && "
               "ip -n n address add 10.9.9.2/24 dev w1 && ip -n n link set w1 up && ip -n n route add 172.17.0.0/16 via 10.9.9.1 && "
               "ip netns exec n ping -c1 -W5 172.17.0.1 >/dev/null && ip netns exec n curl -sS --max-time 5 -x http://172.17.0.1:8080 http://x.example/",
               user="root", timeout=60)
    tap.ok(r.code in (7, 28), "a neighbour that routes to the same address from another interface does not", r)


def signing(vm):
    """UN-41: a commit signed with a key that stays on the host, through the agent's socket."""
    with tempfile.TemporaryDirectory() as d:
        agent = subprocess.Popen(["ssh-agent", "-D", "-a", d + "/agent"], stdout=subprocess.DEVNULL)
        try:
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", d + "/key"], check=True)
            for _ in range(100):
                if os.path.exists(d + "/agent"):
                    break
                threading.Event().wait(0.05)
            subprocess.run(["ssh-add", "-q", d + "/key"], check=True, env=dict(os.environ, SSH_AUTH_SOCK=d + "/agent"))
            with open(d + "/key.pub", "rb") as f:
                public = f.read()
            vm.agent = d + "/agent"
            vm.put("/home/agent/key.pub", public, mode=0o644)
            r = vm.run("export SSH_AUTH_SOCK=/run/holdfast/ssh-agent.sock; cd /home/agent && git init -q signed && cd signed && "
                       "git config user.name n && git config user.email n@example.org && git config gpg.format ssh && "
                       "git config user.signingkey /home/agent/key.pub && echo n@example.org $(cat /home/agent/key.pub) > ../signers && "
                       "git config gpg.ssh.allowedSignersFile /home/agent/signers && echo x > f && git add f && git commit -q -S -m one && "
                       "git verify-commit HEAD", timeout=120)
            tap.ok(r.code == 0 and b'Good "git" signature' in r.err, "UN-41 a commit is signed by the host's agent", r)
            tap.ok(vm.run("find / -xdev -name key -newer /home/agent/key.pub 2>/dev/null | grep -v /proc").text == "",
                   "UN-41 and the key itself is not in the workspace")
        finally:
            vm.agent = None
            agent.kill()
            agent.wait()


def ssh_agent(vm):
    """Port 8444: an echo, or the agent that the test has started."""
    def handler(sock):
        if not getattr(vm, "agent", None):
            echo(b"ssh-agent:")(sock)
            return
        up = socket.socket(socket.AF_UNIX)
        up.connect(vm.agent)

        def copy(a, b):
            while True:
                data = a.recv(65536)
                if not data:
                    break
                b.sendall(data)
            try:
                b.shutdown(socket.SHUT_WR)
            except OSError:
                pass
        back = threading.Thread(target=copy, args=(up, sock), daemon=True)
        back.start()
        copy(sock, up)
        back.join()
        sock.close()
    return handler


def main():
    with tempfile.TemporaryDirectory() as d:
        return with_proxy(d + "/leaf")


def with_proxy(leaf):
    ca = certificates(leaf)
    vm = Guest(spec(proxy="on"), extra={"holdfast/ca.crt": ca})
    with vm:
        vm.listen(8443, fixture_proxy(leaf))
        vm.listen(8444, ssh_agent(vm))
        for port, name in ((8445, b"aws:"), (8446, b"token:"), (8447, b"token2:")):
            vm.listen(port, echo(name))
        vm.wait_ready()
        tap.ok(vm.status["bridge"]["listening"] and vm.status["bridge"]["proxy"] == "on", "the status says that the bridge listens", vm.status["bridge"])
        vm.ca = ca
        only = os.environ.get("PARTS", "").split()
        for part in (proxy_stream, sockets, relay, matrix, java_store, containers, signing, environment):
            if only and part.__name__ not in only:
                continue
            try:
                part(vm)
            except Exception as e:
                tap.ok(False, "%s: %r" % (part.__name__, e))
    return tap.done()


if __name__ == "__main__":
    raise SystemExit(main())
