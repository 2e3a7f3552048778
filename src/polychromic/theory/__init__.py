"""Does the theory hold? The paper's claims, checked by exact enumeration on softmax bandits and small trees."""
