"""Layer 3, the composition root: settings, home, wiring. The only place that knows which parts exist."""
