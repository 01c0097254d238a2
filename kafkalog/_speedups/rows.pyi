import numpy as np

HEADER_DTYPE: np.dtype[np.void]
