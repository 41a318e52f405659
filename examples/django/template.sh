# Every new database of this server has hilo: run it as a superuser, once.
psql template1 -c 'CREATE SCHEMA hilo' -c 'GRANT USAGE ON SCHEMA hilo TO PUBLIC' -c 'CREATE EXTENSION hilo SCHEMA hilo'
