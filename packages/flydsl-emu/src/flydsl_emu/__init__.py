"""AMD instruction-set emulator for FlyDSL."""
