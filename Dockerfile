# PostgreSQL with hilo, from its image for Debian 12 and the package that `make package PG=18` makes.
ARG PG=18
FROM postgres:${PG}-bookworm
COPY target/postgresql-${PG_MAJOR}-hilo_*.deb /tmp/
RUN dpkg --install /tmp/postgresql-${PG_MAJOR}-hilo_*.deb \
    && rm /tmp/postgresql-*.deb \
    && printf '%s\n' \
        'CREATE SCHEMA hilo;' \
        'GRANT USAGE ON SCHEMA hilo TO PUBLIC;' \
        'CREATE EXTENSION hilo SCHEMA hilo;' \
        'ALTER DATABASE :"DBNAME" SET search_path = "$user", public, hilo;' \
        > /docker-entrypoint-initdb.d/hilo.sql
CMD ["postgres", "-c", "shared_preload_libraries=hilo"]
