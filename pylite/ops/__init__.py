"""The ops, one family a module.  The registry imports a module when a model first needs one of its ops."""
