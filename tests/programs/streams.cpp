// Strings and streams, of which the standard library has most compiled already; a compiler that optimises has it here as well.
#include <iostream>
#include <sstream>
#include <string>

int main(int argc, char **argv) {
  std::ostringstream out;
  for (int i = 0; i < 9000 + argc; i++) out << argv[0][0] << i;
  std::string text = out.str(), word, all;
  std::istringstream in(text);
  while (std::getline(in, word, argv[0][0])) all += word;
  std::cout << all.size() << "\n";
}
