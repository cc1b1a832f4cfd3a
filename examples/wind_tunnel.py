raise ImportError("ratchet.examples.wind_tunnel is now ratchet.examples.ablation_testbed")
