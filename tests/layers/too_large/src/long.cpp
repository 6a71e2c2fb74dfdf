// Breaks the rules on purpose: the size check must refuse this folder. This line has one hundred and twenty-one columns.
#include <string>

int step(int i);

namespace {

// 61 lines, counted from the signature's first line on.
int too_long(const std::string& first_of_two_texts_with_a_long_name,
             const std::string& second_of_two_texts_with_a_long_name) {
  int total = step(first_of_two_texts_with_a_long_name < second_of_two_texts_with_a_long_name);
  total += step(0);
  total += step(1);
  total += step(2);
  total += step(3);
  total += step(4);
  total += step(5);
  total += step(6);
  total += step(7);
  total += step(8);
  total += step(9);
  total += step(10);
  total += step(11);
  total += step(12);
  total += step(13);
  total += step(14);
  total += step(15);
  total += step(16);
  total += step(17);
  total += step(18);
  total += step(19);
  total += step(20);
  total += step(21);
  total += step(22);
  total += step(23);
  total += step(24);
  total += step(25);
  total += step(26);
  total += step(27);
  total += step(28);
  total += step(29);
  total += step(30);
  total += step(31);
  total += step(32);
  total += step(33);
  total += step(34);
  total += step(35);
  total += step(36);
  total += step(37);
  total += step(38);
  total += step(39);
  total += step(40);
  total += step(41);
  total += step(42);
  total += step(43);
  total += step(44);
  total += step(45);
  total += step(46);
  total += step(47);
  total += step(48);
  total += step(49);
  total += step(50);
  total += step(51);
  total += step(52);
  total += step(53);
  total += step(54);
  total += step(55);
  return total;
}

}  // namespace
