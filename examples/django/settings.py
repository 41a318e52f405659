import os

DATABASES = {
    "default": {
        "ENGINE": "postgresql_hilo",
        "HOST": os.environ.get("PGHOST", ""),
        "PORT": os.environ.get("PGPORT", ""),
        "USER": os.environ.get("PGUSER", ""),
        "NAME": os.environ["PGDATABASE"],
    }
}
INSTALLED_APPS = ["shop"]
USE_TZ = True
