# redis-server on a socket of its own under redis-benchmark; its data compared by digest; saved, restarted, compared again.
# SPDX-License-Identifier: BSD-2-Clause
. "$SOURCES/need.sh"
need redis-server
need redis-benchmark
need redis-cli
server=
start() {
    redis-server --port 0 --unixsocket socket --save '' --dir "$PWD" --dbfilename dump.rdb --daemonize no --io-threads 2 >server.log 2>&1 &
    server=$!
    for attempt in $(seq 600); do
        [ "$(redis-cli -s socket ping 2>/dev/null)" = PONG ] && return
        sleep 0.2
    done
    cat server.log >&2
    exit 1
}
trap 'if [ -n "$server" ]; then kill "$server" 2>/dev/null || true; fi' EXIT
start
redis-benchmark -s socket -q -n 20000 -c 20 -P 8 -r 10000 -d 200 -t set,get,incr,lpush,rpop,sadd,hset,zadd,lrange_100,mset >benchmark.log 2>&1
grep -c 'requests per second' benchmark.log
redis-cli -s socket flushall
awk 'BEGIN { for (i = 1; i <= 5000; i++) { printf "SET key%d %s%d\n", i * 7919 % 2011, "value", i; printf "APPEND key%d tail%d\n", i % 1000, i;
    printf "RPUSH list%d %d\n", i % 300, i; printf "HSET hash%d f%d %d\n", i % 200, i, i; printf "ZADD zset%d %d m%d\n", i % 100, i * 31 % 997, i;
    if (i % 3 == 0) printf "DEL key%d\n", i; } }' | redis-cli -s socket >/dev/null
redis-cli -s socket dbsize
for key in key5 list7 hash9 zset11; do redis-cli -s socket type "$key"; done
redis-cli -s socket lrange list7 0 20
redis-cli -s socket zrange zset11 0 20 withscores
redis-cli -s socket save
redis-cli -s socket memory purge
redis-cli -s socket bgsave >/dev/null
sleep 1
redis-cli -s socket shutdown nosave
wait "$server"
start
redis-cli -s socket dbsize
redis-cli -s socket lrange list7 0 20
redis-cli -s socket shutdown nosave
wait "$server"
server=
