# redis-server on loopback under redis-benchmark; its data compared by digest; saved, restarted, compared again.
# SPDX-License-Identifier: BSD-2-Clause
. "$SOURCES/need.sh"
need redis-server
need redis-benchmark
need redis-cli
port=$((20000 + $$ % 10000))
server=
start() {
    redis-server --port "$port" --bind 127.0.0.1 --save '' --dir "$PWD" --dbfilename dump.rdb --daemonize no --io-threads 2 >server.log 2>&1 &
    server=$!
    for attempt in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
        [ "$(redis-cli -p "$port" ping 2>/dev/null)" = PONG ] && return
        sleep 0.2
    done
    cat server.log >&2
    exit 1
}
trap 'if [ -n "$server" ]; then kill "$server" 2>/dev/null || true; fi' EXIT
start
redis-benchmark -p "$port" -q -n 20000 -c 20 -P 8 -r 10000 -d 200 -t set,get,incr,lpush,rpop,sadd,hset,zadd,lrange_100,mset >benchmark.log 2>&1
grep -c 'requests per second' benchmark.log
redis-cli -p "$port" flushall
awk 'BEGIN { for (i = 1; i <= 5000; i++) { printf "SET key%d %s%d\n", i * 7919 % 2011, "value", i; printf "APPEND key%d tail%d\n", i % 1000, i;
    printf "RPUSH list%d %d\n", i % 300, i; printf "HSET hash%d f%d %d\n", i % 200, i, i; printf "ZADD zset%d %d m%d\n", i % 100, i * 31 % 997, i;
    if (i % 3 == 0) printf "DEL key%d\n", i; } }' | redis-cli -p "$port" >/dev/null
redis-cli -p "$port" dbsize
for key in key5 list7 hash9 zset11; do redis-cli -p "$port" type "$key"; done
redis-cli -p "$port" lrange list7 0 20
redis-cli -p "$port" zrange zset11 0 20 withscores
redis-cli -p "$port" save
redis-cli -p "$port" memory purge
redis-cli -p "$port" bgsave >/dev/null
sleep 1
redis-cli -p "$port" shutdown nosave
wait "$server"
start
redis-cli -p "$port" dbsize
redis-cli -p "$port" lrange list7 0 20
redis-cli -p "$port" shutdown nosave
wait "$server"
server=
