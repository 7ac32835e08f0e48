"""Pictures, sound and labels from files, and the models that are bundled with pylite."""
