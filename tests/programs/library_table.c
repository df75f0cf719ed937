/* A library with a large static variable. */
enum { BYTES = 8 << 20 };

char library_table[BYTES];

long fill_library_table(void) {
  long sum = 0;
  for (long i = 0; i < BYTES; i += 64) sum += library_table[i] = (char)(i / 64 % 7);
  return sum;
}
