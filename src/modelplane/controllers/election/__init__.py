"""Election of the controller that acts."""
