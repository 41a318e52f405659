"""Settings for Django's own suite: its two databases are made from template1, where everything.sql has been run."""

SECRET_KEY = "tests"
USE_TZ = False
DEFAULT_AUTO_FIELD = "django.db.models.AutoField"
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
TEST_RUNNER = "runner.Runner"
DATABASES = {
    alias: {"ENGINE": "postgresql_hilo", "NAME": f"suite_{alias}", "USER": "postgres"} for alias in ("default", "other")
}
