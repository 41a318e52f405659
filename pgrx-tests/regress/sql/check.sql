-- hilo_check: what is wrong with sequences and columns (settings differ from server to server)
CREATE VIEW wrong AS SELECT object, severity, what, what_to_do FROM hilo_check() WHERE object !~ '^(setting|node)' AND severity <> 'note';
SELECT * FROM wrong;

-- a sequence that is nearly used up, and one that is not
SELECT hilo_create('full', max_value => 1000, block_size => 10), hilo_create('round', max_value => 10, cycle => true);
SELECT count(*) FROM hilo_nextvals('full', 700);
SELECT count(*) FROM hilo_nextvals('round', 25);
SELECT object, severity FROM wrong;
SELECT hilo_setval('full', 820);
SELECT object, severity, what ~ '^82\.00 % of its values are reserved, up to its maximum 1000' AS what FROM wrong;
SELECT hilo_setval('full', 1000);
SELECT object, severity, what ~ '^100\.00 %' AS what FROM wrong;
SELECT hilo_drop('full'), hilo_drop('round');

-- a default whose sequence does not exist
CREATE TABLE checked (id bigint PRIMARY KEY DEFAULT hilo_nextval('checked'), small smallint DEFAULT hilo_nextval('small'));
SELECT * FROM wrong;
-- a column too narrow for its sequence
SELECT hilo_create('checked'), hilo_create('small');
SELECT * FROM wrong;
SELECT hilo_alter('small', data_type => 'smallint');
SELECT * FROM wrong;
-- rows beyond the position, as after explicit inserts
INSERT INTO checked VALUES (1000000, 1);
SELECT * FROM wrong;
SELECT hilo_setval('checked', 1000000);
SELECT * FROM wrong;
INSERT INTO checked DEFAULT VALUES RETURNING id;
SELECT * FROM wrong;
-- descending
SELECT hilo_create('deep', increment => -1);
CREATE TABLE deep (id bigint PRIMARY KEY DEFAULT hilo_nextval('deep'));
INSERT INTO deep VALUES (-5000);
SELECT * FROM wrong;

-- others see only what is theirs to see
CREATE ROLE regress_hilo_checker;
GRANT SELECT ON wrong TO regress_hilo_checker;
SET ROLE regress_hilo_checker;
SELECT object FROM hilo_check() WHERE object !~ '^(setting|node)';
RESET ROLE;
GRANT INSERT ON deep TO regress_hilo_checker;
SELECT hilo_grant('deep', 'regress_hilo_checker', 'SELECT');
SET ROLE regress_hilo_checker;
SELECT object FROM hilo_check() WHERE object !~ '^(setting|node)';
RESET ROLE;
GRANT SELECT ON deep TO regress_hilo_checker;
SET ROLE regress_hilo_checker;
SELECT object FROM hilo_check() WHERE object !~ '^(setting|node)';
RESET ROLE;
DROP VIEW wrong;
DROP TABLE checked, deep;
SELECT hilo_drop('checked'), hilo_drop('small'), hilo_drop('deep');
DROP ROLE regress_hilo_checker;
