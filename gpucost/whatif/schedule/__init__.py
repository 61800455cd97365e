"""GPUs that are up only when they are needed: idle ones released, empty nodes removed, nights and weekends off."""
