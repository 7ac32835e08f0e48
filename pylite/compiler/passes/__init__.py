"""What makes a graph or a lowered graph cheaper to run, one rewrite a module; `pipeline` runs them in order."""
