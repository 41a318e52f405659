# PostgreSQL with hilo, built from these sources: `docker build .` needs neither Rust nor Debian. `--target extension` makes
# an image of hilo's files alone, from PostgreSQL 18 on, for those who mount an extension beside the server.
ARG PG=18

FROM rust:1-bookworm AS rust

FROM postgres:${PG}-bookworm AS build
RUN apt-get update \
    && apt-get install --yes --no-install-recommends build-essential libclang-dev postgresql-server-dev-${PG_MAJOR}
COPY --from=rust /usr/local/rustup /usr/local/rustup
COPY --from=rust /usr/local/cargo /usr/local/cargo
ENV RUSTUP_HOME=/usr/local/rustup CARGO_HOME=/usr/local/cargo PATH=/usr/local/cargo/bin:$PATH
COPY . /hilo
RUN make --directory /hilo build PG=${PG_MAJOR}

FROM scratch AS extension
ARG PG
COPY --from=build /hilo/target/package-pg${PG}/usr/lib/postgresql/${PG}/lib/ /lib/
COPY --from=build /hilo/target/package-pg${PG}/usr/share/postgresql/${PG}/extension/ /share/extension/
COPY LICENSE /licenses/hilo/

FROM postgres:${PG}-bookworm
ARG PG
COPY --from=build /hilo/target/package-pg${PG}/ /
RUN printf '%s\n' \
        'CREATE SCHEMA hilo;' \
        'GRANT USAGE ON SCHEMA hilo TO PUBLIC;' \
        'CREATE EXTENSION hilo SCHEMA hilo;' \
        'ALTER DATABASE :"DBNAME" SET search_path = "$user", public, hilo;' \
        > /docker-entrypoint-initdb.d/hilo.sql
CMD ["postgres", "-c", "shared_preload_libraries=hilo"]
