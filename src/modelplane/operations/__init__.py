"""Operations on a fleet that a command, the dashboard or an assistant can ask for."""
