-- An in-memory database: inserts, an index, sorting, joins, blobs and deletion. Prints sums.
PRAGMA cache_size = -65536;
CREATE TABLE item (id INTEGER PRIMARY KEY, class INTEGER, weight REAL, name TEXT);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 200000)
INSERT INTO item SELECT i, (i * 7919) % 1000, (i % 97) * 0.5, 'item ' || ((i * 31) % 5000) FROM n;
CREATE INDEX by_class ON item (class, weight);
CREATE TABLE payload AS SELECT id, zeroblob(20000 + id % 30000) AS body FROM item WHERE id % 200 = 0;
SELECT count(*), sum(weight) FROM item;
SELECT class, count(*), max(name) FROM item GROUP BY class ORDER BY sum(weight) DESC, class LIMIT 5;
SELECT count(*), sum(length(p.body)) FROM payload p JOIN item i USING (id) WHERE i.class < 500;
SELECT a.class, count(*) FROM item a JOIN item b ON a.class = b.class AND b.id <= 300 GROUP BY a.class ORDER BY 2 DESC, 1 LIMIT 3;
DELETE FROM item WHERE id % 3 = 0;
UPDATE item SET name = upper(name) || weight WHERE class % 2 = 0;
SELECT count(DISTINCT name), sum(length(name)) FROM item;
VACUUM;
PRAGMA integrity_check;
