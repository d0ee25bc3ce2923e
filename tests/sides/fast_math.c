/* Linked with -ffast-math: what is loaded sets flush-to-zero and denormals-are-zero as it is loaded. */
double fast_math(double value);
double fast_math(double value) { return value / 3; }
