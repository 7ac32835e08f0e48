"""Tables as text and as HTML, for commands, reports and notebooks."""
