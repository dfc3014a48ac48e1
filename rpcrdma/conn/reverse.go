package conn

// Calls in both directions on one connection (RFC 8167). Each direction has its own role at
// either end, with its own XIDs, credits and receives. The receives of both directions are
// posted together, but each message counts for its own direction only. Inbound tells the
// directions apart.
