// Strings in a map and in vectors that grow: allocations by the standard library. words [WORDS]
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

int main(int argc, char **argv) {
    size_t words = argc > 1 ? atol(argv[1]) : 200000, bytes = 0;
    for (int turn = 0; turn < 4; turn++) {
        std::map<std::string, std::vector<std::string>> index;
        for (size_t i = 0; i < words; i++) {
            std::string word = "a word that is longer than what a string has room for, " + std::to_string(i * 7919 % words);
            index[word.substr(0, 57)].push_back(word);
        }
        for (auto &[key, list] : index)
            bytes += key.size() + list.size();
    }
    printf("%zu\n", bytes);
}
