# sqlite3: bulk insert, indices, joins, updates, deletes, vacuum, full-text, integrity_check.
# SPDX-License-Identifier: BSD-2-Clause
. "$SOURCES/need.sh"
need sqlite3
sqlite3 test.db <<'SQL'
PRAGMA cache_size = -8000;
CREATE TABLE numbers(id INTEGER PRIMARY KEY, value INTEGER, name TEXT, payload BLOB);
BEGIN;
WITH RECURSIVE counter(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM counter WHERE n < 120000)
INSERT INTO numbers SELECT n, n * 7919 % 100003, 'name ' || (n * 31 % 5003), zeroblob(n % 100) FROM counter;
COMMIT;
CREATE INDEX by_value ON numbers(value);
CREATE INDEX by_name ON numbers(name, value);
SELECT count(*), sum(value), sum(length(payload)) FROM numbers;
SELECT a.name, count(*), avg(b.value) FROM numbers a JOIN numbers b ON a.value = b.id WHERE a.id % 97 = 0 GROUP BY a.name ORDER BY 2 DESC, 1 LIMIT 20;
UPDATE numbers SET value = value + 1, name = name || 'x' WHERE id % 3 = 0;
DELETE FROM numbers WHERE id % 5 = 0;
SELECT name, max(value) FROM numbers GROUP BY name ORDER BY max(value) DESC, name LIMIT 10;
WITH ranked AS (SELECT name, value, row_number() OVER (PARTITION BY value % 100 ORDER BY value, id) AS rank FROM numbers)
SELECT sum(value * rank) FROM ranked WHERE rank < 50;
CREATE TABLE notes(body TEXT);
INSERT INTO notes SELECT group_concat(name, ' ') FROM numbers GROUP BY value % 1000;
SELECT count(*), sum(length(body)) FROM notes WHERE body LIKE '%name 77%';
VACUUM;
PRAGMA integrity_check;
SQL
sqlite3 test.db .dump | cksum
