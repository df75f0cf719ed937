// Memory that the standard library allocates for the program, and exceptions on the way.
#include <cstdio>
#include <map>
#include <memory>
#include <new>
#include <string>
#include <vector>

struct Matrix {
    std::vector<double> values;
    explicit Matrix(size_t n) : values(n * n, 1.0) {}
};

int main() {
    std::vector<double> first(1 << 20, 2.0);
    std::vector<double> second;
    second.resize(1 << 19, 3.0);
    Matrix small(600);
    Matrix large(1000);
    auto owned = std::make_unique<double[]>(1 << 18);
    owned[9] = 4;
    std::map<int, std::string> texts;
    for (int i = 0; i < 100; i++)
        texts[i] = std::string(5000 + i, 'x');
    try {
        std::vector<double> huge(1ull << 58);
        puts(huge.empty() ? "empty" : "not empty");
    } catch (const std::bad_alloc &) {
        puts("bad alloc");
    }
    size_t bytes = 0;
    for (auto &[key, text] : texts)
        bytes += text.size() + key;
    printf("%g %zu\n", first[5] + second[6] + small.values[7] + large.values[8] + owned[9], bytes);
}
