"""Runs tests of Django's own suite. Those that differences.txt names must fail, and no others."""

from pathlib import Path

from django.test.runner import DiscoverRunner
from django.test.utils import iter_test_cases

DIFFERENCES = Path(__file__).with_name("differences.txt")
# That hilo has numbered the columns, and sequences of Postgres have not.
NUMBERED = """
SELECT (SELECT count(*) FROM hilo.hilo_sequences), (SELECT count(*) FROM pg_sequences)
"""


class Runner(DiscoverRunner):
    def build_suite(self, *arguments, **others):
        suite = super().build_suite(*arguments, **others)
        self.names = {test.id() for test in iter_test_cases(suite)}
        return suite

    def teardown_databases(self, databases, **others):
        for connection, *_ in databases:
            with connection.cursor() as cursor:
                cursor.execute(NUMBERED)
                ours, theirs = cursor.fetchone()
            assert ours > 0 and theirs == 0, f"{ours} sequences of hilo, {theirs} of Postgres"
        super().teardown_databases(databases, **others)

    def suite_result(self, suite, result, **others):
        ends = [*result.failures, *result.errors]
        failed = {getattr(test, "test_case", test).id() for test, _ in ends}
        failed |= {test.id() for test in result.unexpectedSuccesses}
        lines = DIFFERENCES.read_text().splitlines()
        either = {line.removeprefix("? ") for line in lines if line.startswith("?")}
        expected = {line for line in lines if line[:1].isalpha()} & self.names
        for name in sorted(failed - expected - either):
            print(f"error: {name} fails")
        for name in sorted(expected - failed):
            print(f"error: {name} passes: it stands in differences.txt")
        wrong = (failed ^ expected) - either
        print(f"{len(self.names)} tests, of which {len(expected)} differ as listed, and {len(wrong)} otherwise")
        return len(wrong)
