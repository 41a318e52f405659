<?php
// hilo with PDO. The server comes from PGHOST, PGPORT, PGUSER and PGDATABASE.

function check(bool $holds, string $otherwise): void
{
    if (!$holds) {
        throw new RuntimeException($otherwise);
    }
}

$pdo = new PDO(sprintf(
    'pgsql:host=%s;port=%s;user=%s;dbname=%s',
    getenv('PGHOST'),
    getenv('PGPORT'),
    getenv('PGUSER'),
    getenv('PGDATABASE'),
));
$pdo->exec("SELECT hilo_create('orders', if_not_exists => true)");
$pdo->exec("CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT hilo_nextval('orders'), customer text NOT NULL)");

// The id comes back with the row.
$insert = $pdo->prepare('INSERT INTO orders (customer) VALUES (?) RETURNING id');
$ids = [];
for ($number = 0; $number < 1000; $number++) {
    $insert->execute(["row $number"]);
    $ids[] = $insert->fetchColumn();
}

// Or it is asked for afterwards, in the same session.
$pdo->exec("INSERT INTO orders (customer) VALUES ('Ada')");
$ids[] = $pdo->query("SELECT hilo_currval('orders')")->fetchColumn();
check($pdo->query('SELECT customer FROM orders WHERE id = ' . end($ids))->fetchColumn() === 'Ada', 'currval');

// lastInsertId() asks core's lastval(), which knows nothing of hilo: it fails here, and where this session has used a
// core sequence it returns that one's value.
try {
    check(false, 'lastInsertId() returns ' . $pdo->lastInsertId());
} catch (PDOException $error) {
    check($error->getCode() === '55000', $error->getMessage());
}
$pdo->exec('CREATE TEMPORARY TABLE other (id serial, note text)');
$pdo->exec("INSERT INTO other (note) VALUES ('one row')");
$pdo->exec("INSERT INTO orders (customer) VALUES ('Grace')");
check($pdo->lastInsertId() === '1', 'lastInsertId() is the key of the other table');
$ids[] = $pdo->query('SELECT hilo_lastval()')->fetchColumn();

check(count(array_unique($ids)) === 1002, 'an id came twice');
$stored = $pdo->query('SELECT count(*) FROM orders WHERE id IN (' . implode(', ', $ids) . ')')->fetchColumn();
check($stored === 1002, "$stored rows");
echo "PDO: 1002 rows, no id twice\n";
