# SPDX-License-Identifier: GPL-2.0-or-later
"""Bridges and the proxy's environment (UN-01, 02, 14, 55, DRP-05; spec of sandboxd, section 8)."""
import re
import socket
import subprocess
import tempfile
import threading

from guestvm import Guest, Tap, json, spec

tap = Tap()
seen = []


def fixture_proxy(sock):
    """Keeps the preamble, answers like a web server, and echoes what came."""
    data = b""
    while b"\n" not in data:
        more = sock.recv(65536)
        if not more:
            break
        data += more
    line, _, rest = data.partition(b"\n")
    while b"END" not in rest[-8:] and b"\r\n\r\n" not in rest[-4:]:
        more = sock.recv(65536)
        if not more:
            break
        rest += more
    seen.append((line, rest))
    sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(rest) + rest)
    sock.close()


def echo(tag):
    def handler(sock):
        data = sock.recv(4096)
        sock.sendall(tag + data)
        sock.close()
    return handler


def certificate():
    with tempfile.TemporaryDirectory() as d:
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
                        "-subj", "/CN=Holdfast fixture CA", "-keyout", d + "/k", "-out", d + "/c"], check=True, capture_output=True)
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
        "su": "sudo -n su agent -c env",
        "a service": "sudo -n systemd-run -q --pipe --wait env",
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


def main():
    vm = Guest(spec(proxy="on"), extra={"holdfast/ca.crt": certificate()})
    with vm:
        vm.listen(8443, fixture_proxy)
        for port, name in ((8444, b"ssh-agent:"), (8445, b"aws:"), (8446, b"token:"), (8447, b"token2:")):
            vm.listen(port, echo(name))
        vm.wait_ready()
        tap.ok(vm.status["bridge"]["listening"] and vm.status["bridge"]["proxy"] == "on", "the status says that the bridge listens", vm.status["bridge"])
        for part in (proxy_stream, sockets, relay, environment):
            try:
                part(vm)
            except Exception as e:
                tap.ok(False, "%s: %r" % (part.__name__, e))
    return tap.done()


if __name__ == "__main__":
    raise SystemExit(main())
