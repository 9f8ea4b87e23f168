"""The planner: admit, price, order and explain the candidates of a request, from beliefs held in memory."""
