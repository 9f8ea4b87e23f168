"""Any client dialect to any upstream dialect: requests, whole answers, streams and errors; pure."""
