#!/usr/bin/env bash
# A server with slabs and threads, filled and read over a socket.
memcached -u "$(id -un)" -s memcached.sock -m 128 -t 4 &
server=$!
/usr/bin/python3 - <<'PYTHON'
import hashlib, socket, time

while True:
    try:
        server = socket.socket(socket.AF_UNIX)
        server.connect("memcached.sock")
        break
    except OSError:
        time.sleep(0.02)
answers = server.makefile("rb")
stored = 0
for start in range(0, 20000, 500):
    keys = range(start, start + 500)
    server.sendall(b"".join(b"set k%d 0 0 2000\r\n%s\r\n" % (k, (b"%d " % k * 2000)[:2000]) for k in keys))
    stored += sum(answers.readline() == b"STORED\r\n" for _ in keys)
print("stored", stored)
digest = hashlib.sha256()
for k in range(0, 20000, 7):
    server.sendall(b"get k%d\r\n" % k)
    assert answers.readline().startswith(b"VALUE")
    digest.update(answers.readline())
    answers.readline()
print("read", digest.hexdigest())
PYTHON
kill -INT $server
wait $server
echo "server $?"
