"""Parts of the outbound HTTP/1.1 client; `gateway/upstream.py` puts them together."""
