# Every new database of this server has hilo: run it as a superuser, once.
psql template1 -c 'CREATE SCHEMA hilo' -c 'CREATE EXTENSION hilo SCHEMA hilo'
