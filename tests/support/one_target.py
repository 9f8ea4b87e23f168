"""The smallest config that runs: one tenant, one key, one target, one route; and the roles that run on it."""

from tidegate.gateway.credentials import key_digest

CONFIG = f"""
data_dir = "data"
[gateway]
port = 0
[admin]
port = 0
[[tenants]]
id = "acme"
[[keys]]
id = "k1"
tenant = "acme"
digest = "{key_digest("tg_nobody")}"
[[targets]]
id = "a"
dialect = "openai"
base_url = "https://api.example.test"
model = "m"
secret = "env:A_KEY"
[[targets.prices]]
from = 2025-01-01T00:00:00Z
input_uncached = "1"
output = "1"
[[routes]]
name = "chat"
candidates = [{{ target = "a" }}]
"""
ROLES = ("serve", "gateway", "log", "estimator", "projector", "admin")
