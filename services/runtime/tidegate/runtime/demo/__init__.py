"""`tidegate demo`: real traffic through a running gateway over simulated providers, judged by their own bills."""
