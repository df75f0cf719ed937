#!/usr/bin/env bash
# A server with two workers that compresses what it sends; asked by several clients at once.
mkdir -p site
for i in 1 2 3 4; do seq $((i * 50000)) > "site/$i.txt"; done
cat > nginx.conf <<CONF
daemon off; worker_processes 2; pid $PWD/nginx.pid; error_log $PWD/error.log;
$([ "$(id -u)" -ne 0 ] || echo 'user root;')
events { worker_connections 64; }
http {
  access_log off; gzip on; gzip_types text/plain; default_type text/plain; gzip_buffers 64 64k;
  client_body_temp_path $PWD/body; proxy_temp_path $PWD/proxy; fastcgi_temp_path $PWD/fastcgi;
  uwsgi_temp_path $PWD/uwsgi; scgi_temp_path $PWD/scgi;
  server { listen unix:$PWD/nginx.sock; root $PWD/site; }
}
CONF
nginx -e "$PWD/error.log" -p "$PWD" -c "$PWD/nginx.conf" &
server=$!
until [ -S nginx.sock ]; do sleep 0.02; done
fetch() {
  for _ in 1 2 3 4 5; do
    for i in 1 2 3 4; do
      curl -s --compressed --unix-socket nginx.sock "http://here/$i.txt" | sha256sum
    done
  done
}
for client in 1 2 3; do fetch > "client$client" & clients[client]=$!; done
wait "${clients[@]}"
sort client1 client2 client3 | uniq -c
curl -s -o /dev/null -w '%{http_code}\n' --unix-socket nginx.sock http://here/none
kill -QUIT $server
wait $server
echo "server $?"
grep -c -E "alert|emerg|crit" error.log || true
