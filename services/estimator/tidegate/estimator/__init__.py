"""What is believed of targets, pools and their quota windows, folded from the log."""
