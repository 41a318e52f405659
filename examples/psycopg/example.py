"""hilo with psycopg 3. The server comes from PGHOST, PGPORT, PGUSER and PGDATABASE."""

import psycopg

with psycopg.connect(autocommit=True) as connection:
    connection.execute("SELECT hilo_create('orders', if_not_exists => true)")
    connection.execute(
        "CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT hilo_nextval('orders'), customer text NOT NULL)"
    )

    # One row.
    insert = "INSERT INTO orders (customer) VALUES (%s) RETURNING id"
    [ada] = connection.execute(insert, ["Ada"]).fetchone()
    assert isinstance(ada, int)

    # Many rows, and their ids. executemany pipelines them: the round trips are few.
    names = [f"bulk {number}" for number in range(1000)]
    with connection.cursor() as cursor:
        cursor.executemany(insert, [[name] for name in names], returning=True)
        many = [result.fetchone()[0] for result in cursor.results()]

    # COPY, with ids that are known before the rows are written: the fastest way.
    with connection.cursor() as cursor:
        loaded = cursor.execute("SELECT * FROM hilo_nextrange('orders', %s)", [1000]).fetchone()
        first, last, increment, count = loaded
        copied = list(range(first, last + 1, increment))
        with cursor.copy("COPY orders (id, customer) FROM STDIN") as copy:
            for id, name in zip(copied, names, strict=True):
                copy.write_row([id, name])

    # The name as a parameter.
    row = connection.execute("SELECT hilo_nextval(%s), hilo_currval(%s)", ["orders", "orders"])
    drawn, current = row.fetchone()
    assert drawn == current

    # hilo_create returns a hilo_sequence; a binary cursor gives types that it does not know as bytes, so cast it.
    with connection.cursor(binary=True) as cursor:
        created = "SELECT hilo_create('invoices', if_not_exists => true)::text"
        assert cursor.execute(created).fetchone() == ("invoices",)

    # What was returned is what is stored, and nothing came twice.
    ids = [ada, *many, *copied, drawn]
    assert len(ids) == len(set(ids)) == 2002 and count == 1000
    stored = dict(connection.execute("SELECT id, customer FROM orders WHERE id = ANY(%s)", [ids]).fetchall())
    assert stored == {ada: "Ada", **dict(zip(many, names)), **dict(zip(copied, names))}

print("psycopg: 2001 rows, no id twice")
